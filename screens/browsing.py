"""Actions in the conversation: open rows, find, select, copy. Nothing here changes what runs."""

from typing import TYPE_CHECKING

from prompt_toolkit.application import run_in_terminal

from fluzo.core.outcome import count

from .blocks import Block
from .render import is_open, source_of
from .state import Toggled
from .text import SourceRow

if TYPE_CHECKING:
    from .app import Screen


def toggle_row(screen: "Screen", argument: str = "") -> None:
    """Open or close the selected row, else the last tool row on screen; a chip under the cursor first."""
    if screen.body.focus == "composer" and (screen.composer.fold() or screen.composer.open_chip()):
        return
    transcript, blocks = screen.transcript, screen.state.blocks
    key = transcript.selected if transcript.focused else None
    if key is None:
        keys = [visible.key for visible in transcript.shown if visible.key in blocks]
        key = next((item for item in reversed(keys) if blocks[item].kind in ("tool", "thought")), None)
    if key is None:
        screen.say("No row on the screen opens")
    else:
        toggle(screen, key)


def toggle(screen: "Screen", key: int) -> None:
    """Open or close in place: the row's header stays on its screen row."""
    block = screen.state.blocks.get(key)
    if block is None or block.kind not in ("tool", "thought", "user"):
        return
    transcript = screen.transcript
    top = next((number for number, visible in enumerate(transcript.shown) if visible.key == block.key), None)
    screen.apply(Toggled(block.key, not is_open(block)))
    if top is not None and transcript.shown[top].row == 0:
        transcript.hold(block.key, top)


def toggle_turn(screen: "Screen", argument: str = "") -> None:
    """Open or close the tool rows of the selected turn, else of the last one on the screen."""
    transcript, blocks = screen.transcript, screen.state.blocks
    shown = [visible.key for visible in transcript.shown if visible.key in blocks]
    at = transcript.selected if transcript.focused and transcript.selected in blocks else None
    at = shown[-1] if at is None and shown else at
    if at is None:
        screen.say("No row on the screen opens")
        return
    first, last = at, at + 1
    while first - 1 in blocks and blocks[first].kind != "user":
        first -= 1
    while last in blocks and blocks[last].kind != "user":
        last += 1
    keys = [key for key in range(first, last) if blocks[key].kind == "tool"]
    opened = any(is_open(blocks[key]) for key in keys)
    for key in keys[-200:]:
        screen.apply(Toggled(key, not opened))
    if not keys:
        screen.say("No row of this turn opens")


def find(screen: "Screen", argument: str = "") -> None:
    """Mark a text in the conversation and go to its last occurrence; without a text the marks go."""
    transcript = screen.transcript
    if not argument:
        if transcript.find:
            transcript.find = ""
            screen.say("Find is off")
        else:
            screen.composer.put_aside("/find ")
            screen.views.close_all()
            screen.say("Type what to find, then Enter")
        return
    transcript.find = argument
    find_step(screen, -1, fresh=True)


def find_step(screen: "Screen", step: int, *, fresh: bool = False) -> None:
    transcript, blocks = screen.transcript, screen.state.blocks
    wanted = transcript.find.lower()
    if not wanted:
        screen.say("Nothing to find; /find TEXT")
        return
    here = transcript.selected if transcript.selected is not None and not fresh else blocks.next
    key = here + step
    while key in blocks:
        if wanted in source_of(blocks[key]).lower():
            transcript.selected = key
            transcript.to_block(key)
            screen.body.focus_transcript()
            screen.say(f'"{transcript.find}"  n next  N previous  Esc back')
            return
        key += step
    where = "" if fresh else " further down" if step > 0 else " further up"
    more = "; older messages are not loaded yet" if screen.state.more and step < 0 else ""
    screen.say(f'"{transcript.find}" is not found{where}{more}')


def copy_reply(screen: "Screen", argument: str = "") -> None:
    """`/copy` takes the last reply, `/copy all` the whole conversation that is loaded."""
    if argument == "all":
        screen.copy("\n\n".join(source_of(block) for block in screen.state.blocks), "the conversation")
        return
    for block in screen.state.blocks.reversed():
        if block.kind == "text":
            screen.copy(block.source, "the last reply")
            return
    screen.say("There is no reply yet")


def copy_selection(screen: "Screen") -> bool:
    """Copy what the mouse selected and let go of it; False when nothing is selected."""
    pointer = screen.transcript.pointer
    text = pointer.text
    if not text:
        return False
    screen.copy(text, "the selection")
    pointer.clear()
    return True


def _selected(screen: "Screen") -> Block | None:
    key, blocks = screen.transcript.selected, screen.state.blocks
    return blocks[key] if key is not None and key in blocks else None


def copy_block(screen: "Screen", argument: str = "") -> None:
    block = _selected(screen)
    if not copy_selection(screen) and block is not None:
        screen.copy(source_of(block), "the block")


def copy_code(screen: "Screen", argument: str = "") -> None:
    """Copy the code nearest to the selected block: in it, else above it, else below. Of several in the selected one
    it is the last that begins on the screen or above it."""
    from .markdown import codes

    here, blocks = _selected(screen), screen.state.blocks
    if here is None:
        return
    above, below = range(here.key - 1, blocks.first - 1, -1), range(here.key + 1, blocks.next)
    texts = (blocks[key] for key in (here.key, *above, *below) if blocks[key].kind == "text")
    for block in texts:
        found = codes(block.source)
        if found:
            end = _last_line(screen, block) if block.key <= here.key else 0
            code = ([code for line, code in found if line <= end] or [found[0][1]])[-1]
            screen.copy(code, f"{count(code.count(chr(10)) + 1, 'line', 'lines')} of code")
            return
    screen.say("There is no code in this conversation")


def _last_line(screen: "Screen", block: Block) -> int:
    """The last line of a block's source that is on the screen; of a block that is not, its last."""
    rows = (visible.line for visible in screen.transcript.shown if visible.key == block.key)
    ends = [row.end for row in rows if isinstance(row, SourceRow)]
    return block.source.count("\n", 0, max(ends, default=len(block.source)))


def copy_turn(screen: "Screen", argument: str = "") -> None:
    block = _selected(screen)
    if block is not None:
        parts = [source_of(item) for item in screen.state.blocks if item.task_id == block.task_id]
        screen.copy("\n\n".join(parts), "the turn")


def page_block(screen: "Screen", argument: str = "") -> None:
    from .pager import Pager

    block = _selected(screen)
    if block is not None:
        name = f"{block.tool.verb} {block.tool.subject}" if block.tool else "Message"
        screen.views.show(Pager(screen, name, source_of(block)))


def move_selection(screen: "Screen", step: int) -> None:
    transcript, blocks = screen.transcript, screen.state.blocks
    key = transcript.selected if transcript.selected is not None else blocks.next
    if key + step in blocks:
        transcript.selected = key + step
        transcript.to_block(key + step)


# --- the plain terminal ---------------------------------------------------------------------------------------


def raw(screen: "Screen", argument: str = "") -> None:
    """Leave the full screen and print the conversation for the terminal's own selection and search, until a key."""
    from .plain import plain_text, show_until_key

    text = plain_text(screen.state.blocks)
    if not text:
        screen.say("There is nothing to show yet")
        return

    async def run() -> None:
        await run_in_terminal(lambda: show_until_key(text), in_executor=True)

    screen.app.create_background_task(run())
