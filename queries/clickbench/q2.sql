-- ClickBench Q2: rows with an advertisement.
select count(*) from hits where "AdvEngineID" <> 0;
