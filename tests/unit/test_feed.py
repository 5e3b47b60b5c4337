import threading

from fluzo.core.events import Event, OperationProgress, Scope, TextDelta, TurnStarted
from fluzo.core.port import Lagged, Subscription
from fluzo.runtime import feed as feeds
from fluzo.runtime.feed import Feed


def event(seq: int, task: str = "t") -> Event:
    return Event(seq, f"e{seq}", "now", Scope(task_id=task), TurnStarted(seq))


def drain(subscription: Subscription) -> list[object]:
    found: list[object] = []
    while (update := subscription.next(0)) is not None:
        found.append(update)
    return found


def test_what_is_published_during_the_catch_up_comes_after_it_once() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    feed.publish((event(3),))
    feed.publish((event(4),))
    assert subscription.next(0) is None
    subscription.catch_up((event(1), event(2), event(3)))
    feed.publish((event(5),))
    assert [update.seq for update in drain(subscription) if isinstance(update, Event)] == [1, 2, 3, 4, 5]


def test_other_tasks_are_not_heard() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    subscription.catch_up(())
    feed.publish((event(1, "other"), event(2)))
    assert [update.seq for update in drain(subscription) if isinstance(update, Event)] == [2]


def test_contiguous_text_is_merged_and_a_gap_is_not() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    subscription.catch_up(())
    for offset, text in ((0, "ab"), (2, "cd"), (9, "x")):
        feed.publish_live(TextDelta("t", 1, offset, text))
    assert drain(subscription) == [TextDelta("t", 1, 0, "abcd"), TextDelta("t", 1, 9, "x")]


def test_newer_progress_replaces_older_of_the_same_operation() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    subscription.catch_up(())
    feed.publish_live(OperationProgress("t", "o1", "run", "x", 1.0))
    feed.publish_live(OperationProgress("t", "o1", "run", "x", 2.0))
    feed.publish_live(OperationProgress("t", "o2", "run", "y", 3.0))
    assert [update.elapsed_seconds for update in drain(subscription) if isinstance(update, OperationProgress)] == [2, 3]


def test_a_slow_reader_is_told_where_to_read_on() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    subscription.catch_up(())
    total = feeds.MAX_UPDATES + 10
    feed.publish(tuple(event(seq) for seq in range(1, total + 1)))
    updates = drain(subscription)
    assert updates[0] == Lagged(0)
    rest = [update.seq for update in updates[1:] if isinstance(update, Event)]
    assert rest == list(range(rest[0], total + 1))


def test_a_second_lag_keeps_the_older_cursor() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    subscription.catch_up(())
    feed.publish(tuple(event(seq) for seq in range(1, 2 * feeds.MAX_UPDATES + 10)))
    assert drain(subscription)[0] == Lagged(0)


def test_a_reader_that_came_after_the_end_still_gets_everything_before_it_ends() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    feed.finish("t")
    assert not subscription.ended
    subscription.catch_up((event(1),))
    assert not subscription.ended
    assert subscription.next(0) == event(1)
    assert subscription.ended


def test_a_waiting_reader_is_woken_by_the_end() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    subscription.catch_up(())
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(subscription.next(120)))
    reader.start()
    feed.finish("t")
    reader.join()
    assert found == [None]
    assert subscription.ended


def test_closing_detaches_the_reader() -> None:
    feed = Feed()
    subscription = feed.open("t", 0)
    subscription.catch_up(())
    subscription.close()
    feed.publish((event(1),))
    assert drain(subscription) == []
