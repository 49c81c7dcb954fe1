-- What a caller names (tenants, keys, queues, positions) is bytea: PostgreSQL's text cannot hold every string that a
-- Go program can, and its order would depend on a locale. Times are nanoseconds since the Unix epoch, UTC; 0 or null
-- is none. Records are those of package history, and the same as in a file.

-- format is the version of this schema. promotion is the first half of every fencing token: whoever promotes a replica
-- that may have lost commits raises it. openings numbers the openings of the store, for runs that are blocked.
create table perdure_meta (
	name  text primary key,
	value bigint not null
);
insert into perdure_meta values ('promotion', 1), ('openings', 0), ('time', 0);

-- The second half of every fencing token.
create sequence perdure_tokens;

-- A run: what is fixed at its start, and what changes with each commit. Rows are updated in place (fillfactor), and
-- an update that moves no index stays on its page.
create table perdure_runs (
	id             bytea primary key,
	tenant         bytea not null,
	key            bytea not null,
	workflow       text collate "C" not null,
	version        integer not null,
	queue          bytea not null,
	priority       integer not null,
	limit_key      bytea not null,
	limit_n        integer not null,
	principal      bytea not null,
	task_id        bytea,
	created_at     bigint not null,
	spec           bytea not null,

	state          bytea not null,
	status         smallint not null,
	questions      integer not null,
	closed_at      bigint not null,
	expires_at     bigint not null,
	left_to_policy boolean not null,
	changed_at     bigint not null,

	-- in line since, not before, and not by an opening up to blocked_by
	ready_at       bigint not null,
	not_before     bigint,
	blocked_by     bigint not null,

	-- the lease: the run is held exactly while lease_until is set
	claimed        boolean not null,
	owner          text,
	opening        bigint,
	token_epoch    bigint,
	token          bigint,
	lease_until    bigint
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create unique index perdure_runs_task on perdure_runs (task_id) where task_id is not null;
create index perdure_runs_line on perdure_runs (workflow, version, queue, tenant, limit_key, limit_n, priority desc, ready_at, id)
	where status in (1, 2, 5) and lease_until is null and not_before is null;
create index perdure_runs_leases on perdure_runs (lease_until) where lease_until is not null;
create index perdure_runs_released on perdure_runs (not_before) where not_before is not null;
create index perdure_runs_closed on perdure_runs (closed_at, id) where closed_at > 0;
create index perdure_runs_tenant on perdure_runs (tenant, id);
create index perdure_runs_workflow on perdure_runs (workflow, id);

-- The newest run with a key, or its tombstone.
create table perdure_keys (
	tenant bytea not null,
	key    bytea not null,
	run    bytea not null,
	primary key (tenant, key)
);

create table perdure_events (
	run bytea not null,
	seq bigint not null,
	rec bytea not null,
	primary key (run, seq)
);

-- fired: it fell due and was told once; the row stays until the holder clears it.
create table perdure_timers (
	run      bytea not null,
	at       bigint not null,
	position bytea not null,
	fired    boolean not null default false,
	primary key (run, at, position)
);
create index perdure_timers_due on perdure_timers (at, run, position) where not fired;

-- dead: no event will consume it.
create table perdure_inbox (
	run         bytea not null,
	seq         bigint not null,
	dead        boolean not null,
	accepted_at bigint not null,
	rec         bytea not null,
	primary key (run, seq)
);

-- What was delivered, so that a repetition is seen; n numbers the rows of a run.
create table perdure_identities (
	run    bytea not null,
	kind   smallint not null,
	key    bytea not null,
	digest bytea not null,
	n      bigint not null,
	at     bigint not null,
	primary key (run, kind, key)
);
create index perdure_identities_age on perdure_identities (run, n);

-- A question; rec is null once it is answered or closed.
create table perdure_questions (
	run bytea not null,
	key bytea not null,
	rec bytea,
	primary key (run, key)
);

create table perdure_definitions (
	name    text collate "C" not null,
	version integer not null,
	digest  bytea not null,
	data    bytea not null,
	primary key (name, version),
	unique (name, digest)
);

create table perdure_secrets (
	name  bytea primary key,
	value bytea not null
);

create table perdure_tombstones (
	run        bytea primary key,
	n          bigint generated always as identity unique,
	tenant     bytea not null,
	workflow   text collate "C" not null,
	deleted_at bigint not null,
	rec        bytea not null
);

create table perdure_holds (
	id       bytea primary key,
	released boolean not null,
	rec      bytea not null
);

create table perdure_receipts (
	run bytea primary key,
	rec bytea not null
);

create table perdure_journal (
	seq bigint primary key,
	rec bytea not null
);

-- Who cleans up; one row.
create table perdure_cleanup (
	one         boolean primary key default true check (one),
	owner       text not null,
	opening     bigint not null,
	token_epoch bigint not null,
	token       bigint not null,
	lease_until bigint not null
);
insert into perdure_cleanup values (true, '', 0, 0, 0, 0);

-- What other openings are told of: hints, which a crash may lose.
create unlogged table perdure_changes (
	id      bigint generated always as identity primary key,
	at      timestamptz not null default clock_timestamp(),
	opening bigint not null,
	change  jsonb not null
);
create index perdure_changes_at on perdure_changes (at);

-- One row for each concurrency key that was ever claimed: its lock makes claims of one key one after another.
create table perdure_limits (
	tenant bytea not null,
	key    bytea not null,
	claims bigint not null default 0,
	primary key (tenant, key)
);
