"""Tests of the sources of rows: a package, since other rooms have files of the same names."""
