-- Where a generation of a run ended, until it is pruned. A run that went on before this version has the newest only, with
-- which the older ones leave.
create table perdure_generations (
	run bytea not null,
	seq bigint not null,
	at  bigint not null,
	primary key (run, seq)
);

-- What the pruned events of a run add up to; seq is the newest of them. No reader sees events up to it. rest: some are left
-- for Erase.
create table perdure_bases (
	run  bytea primary key,
	seq  bigint not null,
	rest boolean not null,
	rec  bytea not null
);
create index perdure_bases_rest on perdure_bases (run) where rest;

-- Rows that come and go are to be found before they are many.
alter table perdure_timers set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
alter table perdure_inbox set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
alter table perdure_changes set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
