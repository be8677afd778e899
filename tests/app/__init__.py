"""Tests of the command line: a package, since other rooms have files of the same names."""
