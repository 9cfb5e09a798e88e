"""Benchmarks, run by `script/bench`, never as tests."""
