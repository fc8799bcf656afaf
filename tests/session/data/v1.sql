BEGIN TRANSACTION;
CREATE TABLE epochs (run_id INTEGER, epoch INTEGER, seconds REAL, lo REAL, hi REAL, printed_seconds INTEGER,
        source TEXT, line INTEGER, PRIMARY KEY (run_id, epoch));
INSERT INTO "epochs" VALUES(1,1,29.0,28.5,29.5,29,'keras',40);
INSERT INTO "epochs" VALUES(1,2,13.6,13.59,13.61,14,'keras',42);
CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, type TEXT NOT NULL, data TEXT NOT NULL);
INSERT INTO "events" VALUES(1,1760000000.0,'submission-planned','{"type":"submission-planned","at":1760000000.0,"token":"lt0123456789abcdef0123","task_id":"10.4","form":"one-gpu","job_name":"ResNet50-ef0123","runs":[{"run_id":1,"spec":{"model":"ResNet50","device":"gpu","n_gpus":1,"batch_size":2048,"epochs":2,"script":"ResNet50.py","learning_rate":null,"extra_args":[]}}],"account":"nct_345","qos":"acc_debug","gpus":1,"cpus":20,"time_limit_minutes":30,"script_file":"slurm/ResNet50-ef0123.slurm","remote_dir":"labtui/hpc4ai-ch10/lt0123456789abcdef0123","remote_logs":{"out":"labtui/hpc4ai-ch10/lt0123456789abcdef0123/ResNet50-ef0123.%j.out"},"script_hashes":{},"practice":false}');
INSERT INTO "events" VALUES(2,1760000001.0,'submission-changed','{"type":"submission-changed","at":1760000001.0,"token":"lt0123456789abcdef0123","status":"accepted","job_id":"31337","sentence":"","hint":""}');
INSERT INTO "events" VALUES(3,1760000010.0,'job-observed','{"type":"job-observed","at":1760000010.0,"token":"lt0123456789abcdef0123","job":{"job_id":"31337","phase":"running","slurm_state":"RUNNING","reason":"","start_estimate":null,"submit_time":null,"start_time":null,"end_time":null,"time_limit_s":null,"elapsed_s":null,"node":"","partition":"","exit_code":"","evidence":"squeue","seen_at":1760000010.0,"unknown_since":null,"restarts":0}}');
INSERT INTO "events" VALUES(4,1760000020.0,'run-started','{"type":"run-started","at":1760000020.0,"run_id":1,"images":null,"framework":"tensorflow 2.11.0","learning_rate":null,"practice":false}');
INSERT INTO "events" VALUES(5,1760000050.0,'epoch','{"type":"epoch","at":1760000050.0,"run_id":1,"sample":{"epoch":1,"seconds":{"value":29.0,"lo":28.5,"hi":29.5},"printed_seconds":29,"steps":25,"ms_per_step":1000.0,"metrics":{"loss":2.1},"source":"keras","line":40,"ended_at":null}}');
INSERT INTO "events" VALUES(6,1760000064.0,'epoch','{"type":"epoch","at":1760000064.0,"run_id":1,"sample":{"epoch":2,"seconds":{"value":13.6,"lo":13.59,"hi":13.61},"printed_seconds":14,"steps":25,"ms_per_step":544.0,"metrics":{"loss":1.9},"source":"keras","line":42,"ended_at":null}}');
INSERT INTO "events" VALUES(7,1760000065.0,'run-ended','{"type":"run-ended","at":1760000065.0,"run_id":1,"outcome":"completed","diagnosis":[]}');
CREATE TABLE jobs (token TEXT PRIMARY KEY, job_id TEXT, phase TEXT, slurm_state TEXT, reason TEXT,
        start_time REAL, end_time REAL, node TEXT, exit_code TEXT, evidence TEXT, seen_at REAL);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE runs (run_id INTEGER PRIMARY KEY, token TEXT, task_id TEXT, model TEXT, device TEXT,
        n_gpus INTEGER, batch_size INTEGER, epochs_planned INTEGER, phase TEXT, outcome TEXT);
CREATE TABLE submissions (token TEXT PRIMARY KEY, task_id TEXT, form TEXT, job_name TEXT, status TEXT,
        sentence TEXT, planned_at REAL, remote_dir TEXT);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',7);
COMMIT;
PRAGMA user_version=1;
