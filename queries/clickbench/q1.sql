-- ClickBench Q1: all rows.
select count(*) from hits;
