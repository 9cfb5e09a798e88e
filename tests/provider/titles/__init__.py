"""Tests of titles."""
