"""Cached results. Requirement 30."""

from fcshim.mcp.connection import ResultCache
from fcshim.tools.result import failed, succeeded

RESULT = succeeded("1")


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_result_is_cached_for_its_lifetime():
    clock = Clock()
    cache = ResultCache(10.0, clock)
    cache.put("t", {"a": 1, "b": 2}, RESULT)
    clock.now += 9.9

    assert RESULT == cache.get("t", {"b": 2, "a": 1})
    assert cache.get("t", {"a": 1}) is None
    assert cache.get("u", {"a": 1, "b": 2}) is None
    clock.now += 0.2
    assert cache.get("t", {"a": 1, "b": 2}) is None


def test_a_failure_is_not_cached():
    cache = ResultCache(10.0, Clock())
    cache.put("t", {}, failed("no"))

    assert cache.get("t", {}) is None


def test_the_cache_is_off_by_default():
    cache = ResultCache(0.0, Clock())
    cache.put("t", {}, RESULT)

    assert cache.get("t", {}) is None


def test_the_oldest_result_is_evicted_first():
    cache = ResultCache(10.0, Clock())
    for number in range(300):
        cache.put("t", {"n": number}, RESULT)

    assert cache.get("t", {"n": 0}) is None
    assert RESULT == cache.get("t", {"n": 299})
