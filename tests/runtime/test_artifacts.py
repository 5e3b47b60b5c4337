import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.store import journal_at, seed

from fluzo.core.errors import StorageError
from fluzo.core.records import Artifact
from fluzo.storage import artifacts


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    return tmp_path / ".fluzodrive"


def kept(drive: Path, data: bytes) -> Artifact:
    async def scenario() -> Artifact:
        async with journal_at(drive) as journal:
            await seed(journal)
            return await journal.store_artifact("t_1", "output", data, truncated=True)

    return asyncio.run(scenario())


def read(drive: Path, artifact_id: str) -> bytes:
    async def scenario() -> bytes:
        async with journal_at(drive, read_only=True) as journal:
            return await journal.read_artifact(artifact_id)

    return asyncio.run(scenario())


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 300_000])
def test_an_artifact_comes_back_byte_for_byte(drive: Path, data: bytes) -> None:
    record = kept(drive, data)
    assert (record.task_id, record.kind, record.size_bytes, record.truncated) == ("t_1", "output", len(data), True)
    assert read(drive, record.id) == data
    path = drive / "artifacts" / record.id
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == [record.id]


@pytest.mark.parametrize("name", ["", "a_unknown", "../state.sqlite3", "/etc/passwd", ".", "a_1.staged", "a\x00b", "é"])
def test_only_recorded_ids_are_read(drive: Path, name: str) -> None:
    kept(drive, b"x")
    with pytest.raises(StorageError) as failed:
        read(drive, name)
    assert failed.value.code == "not_found"


def _change(path: Path) -> None:
    path.write_bytes(b"CONTENT")


def _shorten(path: Path) -> None:
    path.write_bytes(b"con")


def _link(path: Path) -> None:
    elsewhere = path.parents[2] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [Path.unlink, _change, _shorten, _link, _pipe])
def test_an_artifact_that_is_not_what_was_recorded_is_damage(drive: Path, spoil: Callable[[Path], None]) -> None:
    record = kept(drive, b"content")
    spoil(drive / "artifacts" / record.id)

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            with pytest.raises(StorageError, match=record.id) as failed:
                await journal.read_artifact(record.id)
            assert failed.value.code == "store_damaged"
            # One lost file does not stop the work.
            assert await journal.read_artifact((await journal.store_artifact("t_1", "output", b"new")).id) == b"new"

    asyncio.run(scenario())


def test_an_artifact_of_an_unknown_task_is_not_recorded(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            with pytest.raises(StorageError):
                await journal.store_artifact("t_unknown", "output", b"x")
        (orphan,) = (drive / "artifacts").iterdir()
        os.utime(orphan, (1, 1))
        async with journal_at(drive) as journal:
            assert await journal.sweep() == (orphan.name,)

    asyncio.run(scenario())
    assert list((drive / "artifacts").iterdir()) == []


def test_only_what_an_interruption_left_behind_is_swept(drive: Path) -> None:
    record = kept(drive, b"content")
    folder = drive / "artifacts"
    left = {folder / "a_x.staged", folder / "a_y", drive / "state.sqlite3.new-0011"}
    stay = {folder / "notes.txt", folder / "a_directory", folder / record.id, drive / "state.sqlite3.backup-v1"}
    for path in left | stay - {folder / record.id}:
        path.mkdir() if path.name == "a_directory" else path.write_bytes(b"x")
    for path in left | stay:
        os.utime(path, (1, 1))
    young = folder / "a_z.staged"

    async def scenario() -> None:
        async with journal_at(drive) as journal:
            young.write_bytes(b"x")
            os.utime(young, (2**33, 2**33))
            assert set(await journal.sweep()) == {path.name for path in left}
            assert await journal.sweep() == ()

    asyncio.run(scenario())
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in {*stay, young})


def test_an_artifact_on_its_way_is_not_swept(drive: Path) -> None:
    async def scenario() -> None:
        async with journal_at(drive) as journal:
            await seed(journal)
            stored = [journal.store_artifact("t_1", "output", b"x" * 100_000) for _ in range(20)]
            swept = [journal.sweep() for _ in range(20)]
            results = await asyncio.gather(*stored, *swept)
            assert results[20:] == [()] * 20
            for record in results[:20]:
                assert isinstance(record, Artifact)
                assert len(await journal.read_artifact(record.id)) == 100_000

    asyncio.run(scenario())


@pytest.mark.parametrize("look", ["sweep", "size"])
def test_a_file_may_go_after_it_was_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: str) -> None:
    for name in ("a_1.staged", "a_2", "a_3"):
        (tmp_path / name).write_bytes(b"xyz")
        os.utime(tmp_path / name, (1, 1))
    listed = os.scandir

    @contextlib.contextmanager
    def overtaken(directory: int | Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with listed(directory) as entries:
            found = list(entries)
        (tmp_path / "a_1.staged").rename(tmp_path / "a_1")
        (tmp_path / "a_2").unlink()
        yield iter(found)

    monkeypatch.setattr(os, "scandir", overtaken)
    if look == "sweep":
        assert artifacts.sweep(tmp_path, set(), before=2) == ("a_3",)
        assert [path.name for path in tmp_path.iterdir()] == ["a_1"]
    else:
        assert artifacts.size_of(tmp_path) == 3


def test_a_write_that_fails_leaves_no_staged_file(tmp_path: Path) -> None:
    (tmp_path / "a_1").mkdir()
    with pytest.raises(OSError, match="directory"):
        artifacts.store(tmp_path, "a_1", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a_1"]
    with pytest.raises(ValueError, match="id"):
        artifacts.store(tmp_path, "../a_1", b"x")
