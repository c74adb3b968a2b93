from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.codecs.ollama.times import timestamp


@given(st.integers(0, 253_402_300_799))
@example(0)
@example(951_782_399)  # the end of 28 February 2000
@example(951_868_800)  # the first of March
@example(4_107_542_399)  # 2100 is no leap year
def test_a_timestamp_equals_that_of_the_standard_library(seconds):
    assert datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0") == timestamp(seconds)
