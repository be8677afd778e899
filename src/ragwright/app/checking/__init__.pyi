# Commands are loaded by name; no other file imports from here.
