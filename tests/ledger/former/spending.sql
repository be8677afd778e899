BEGIN TRANSACTION;
CREATE TABLE reserved (
        name TEXT PRIMARY KEY,
        day INTEGER NOT NULL,
        amount REAL NOT NULL
    ) WITHOUT ROWID;
INSERT INTO "reserved" VALUES('db52025a0e2d419da94108022e1c6241',20781,3.0);
CREATE TABLE spending (
        day INTEGER PRIMARY KEY,         -- days since 1970-01-01, UTC, by the database's clock
        cost REAL NOT NULL
    );
INSERT INTO "spending" VALUES(20781,1.25);
COMMIT;
PRAGMA user_version = 1;
