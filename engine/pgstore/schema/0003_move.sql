-- The mark of a move that the store takes part in: at most one row. Whoever opens the store reads it.
create table perdure_move (
	one  boolean primary key default true check (one),
	mark jsonb not null
);
