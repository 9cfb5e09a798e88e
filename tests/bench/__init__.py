"""Benchmarks: run by `script/bench`, never by the tests."""
