"""The status of a body, and the state of its current call."""

from fcshim.parse.body import BodyStatus
from fcshim.parse.body_progress import BodyProgress
from fcshim.parse.sink import CallSink


def new_progress() -> BodyProgress:
    return BodyProgress(CallSink(None, "stream", str, 100))


def test_the_start_of_a_call_is_reported() -> None:
    progress = new_progress()
    progress.begin_call()
    progress.report_start()

    assert progress.started
    assert BodyStatus.STARTED is progress.status


def test_a_discarded_call_is_reported_as_text() -> None:
    progress = new_progress()
    progress.discard()

    assert progress.discarding
    assert BodyStatus.NOT_A_CALL is progress.status


def test_the_end_of_a_call_that_was_just_reported_as_text_is_pending() -> None:
    progress = new_progress()
    progress.discard()
    progress.end_call()

    assert BodyStatus.NOT_A_CALL is progress.status
    assert progress.end_pending

    progress.report_pending_end()

    assert BodyStatus.CALL_ENDED is progress.status
    assert not progress.end_pending


def test_a_call_of_a_refused_body_is_discarded_from_its_start() -> None:
    progress = new_progress()
    progress.discard()
    progress.begin_call()

    assert not progress.discarding

    progress.refused = True
    progress.begin_call()

    assert progress.discarding


def test_the_end_of_a_body_accepts_its_last_call() -> None:
    sink = CallSink(None, "stream", str, 100)
    progress = BodyProgress(sink)
    sink.start("f")
    sink.add_chunk("{}")
    sink.mark_complete()
    progress.end_body()

    assert BodyStatus.ENDED is progress.status
    assert 1 == sink.accepted_count
