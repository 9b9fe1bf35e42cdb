-- ClickBench Q3: sums and means of two columns.
select sum("AdvEngineID"), count(*), avg("ResolutionWidth") from hits;
