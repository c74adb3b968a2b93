"""The way of a request does not grow: `python -m benchmarks.structure` reports it beside its bars."""

from benchmarks.structure import load_source, trace_request, unnamed_files

MOST_FILES, MOST_FUNCTIONS = 71, 612
"""What it passes through now; the bars of the benchmark are lower."""


async def test_a_streamed_request_with_one_call_passes_through_no_more_than_before():
    trace = await trace_request()

    assert len(trace.files) <= MOST_FILES
    assert len(trace.functions) <= MOST_FUNCTIONS
    assert unnamed_files(trace.files) == []


def test_few_short_functions_have_one_caller_and_few_small_modules_one_importer():
    source = load_source()

    assert len(source.short_helpers()) <= 150
    assert len(source.small_satellites()) <= 22


def test_the_sizes_of_classes_are_counted():
    sizes = {each.name: each for each in load_source().classes()}

    assert sizes["ToolCallStart"].attributes == 3
    assert sizes["Backend"].booleans >= 4
