BEGIN TRANSACTION;
CREATE TABLE facts (
        run TEXT NOT NULL,
        fact TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (run, fact)
    ) WITHOUT ROWID;
INSERT INTO "facts" VALUES('20261124-032859-0e39d1','cost','{"paid":1.5}');
CREATE TABLE names (
        run TEXT PRIMARY KEY,
        name TEXT NOT NULL
    ) WITHOUT ROWID;
INSERT INTO "names" VALUES('20261124-032859-0e39d1','main');
CREATE TABLE row_sources (
        source TEXT NOT NULL,
        run TEXT NOT NULL,
        row TEXT NOT NULL,
        PRIMARY KEY (source, run, row)
    ) WITHOUT ROWID;
INSERT INTO "row_sources" VALUES('doc','20261124-032859-0e39d1','a');
INSERT INTO "row_sources" VALUES('doc','20261124-032859-0e39d1','b');
INSERT INTO "row_sources" VALUES('other','20261124-032859-0e39d1','b');
CREATE TABLE rows (
        run TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        row TEXT NOT NULL,
        state TEXT NOT NULL,
        body TEXT NOT NULL,
        written REAL NOT NULL,
        PRIMARY KEY (run, row)
    ) WITHOUT ROWID;
INSERT INTO "rows" VALUES('20261124-032859-0e39d1',0,'a','done','{"né": "😀", "text": "of the first"}',1.79549093940605831139e+09);
INSERT INTO "rows" VALUES('20261124-032859-0e39d1',1,'b','errored','{"text": "of the second"}',1.79549093940609192851e+09);
CREATE TABLE runs (
        run TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        manifest TEXT NOT NULL,
        hash TEXT NOT NULL,
        scope TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,             -- open | complete | stopped
        started REAL NOT NULL,
        ended REAL
    ) WITHOUT ROWID;
INSERT INTO "runs" VALUES('20261124-032859-0e39d1','eval','{"rows":2}','ba63bde5e1cf2fa91f0212fb24e57e06','','complete',1.79549093940217328064e+09,1.79549093940717601771e+09);
INSERT INTO "runs" VALUES('20261124-032859-c1771d','study','{"trials":1}','f50244e30e7a134eea80cbdca375d070','tenant','open',1.79549093940824890137e+09,NULL);
CREATE INDEX runs_by_hash ON runs (kind, hash, started);
COMMIT;
PRAGMA user_version = 3;
