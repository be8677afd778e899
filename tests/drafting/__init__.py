"""Tests of drafting: a package, since other rooms have files of the same names."""
