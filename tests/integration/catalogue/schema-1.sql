BEGIN TRANSACTION;
CREATE TABLE sessions (
        identity TEXT NOT NULL, stream_session_id INTEGER NOT NULL, stream TEXT NOT NULL, principal TEXT NOT NULL,
        state TEXT NOT NULL, closed INTEGER NOT NULL, json TEXT NOT NULL, version INTEGER NOT NULL,
        bursts INTEGER NOT NULL, samples INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, stored_bytes INTEGER NOT NULL,
        start_ns INTEGER, end_ns INTEGER, opened_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
        PRIMARY KEY (identity, stream_session_id));
INSERT INTO "sessions" VALUES('run-1',1,'rig','default','open',0,'{}',1,1,2,3,4,10,20,1000,2000);
CREATE INDEX sessions_by_id ON sessions (stream_session_id);
CREATE INDEX sessions_unfinished ON sessions (stream_session_id) WHERE closed = 0;
COMMIT;
PRAGMA user_version = 1;
