-- ClickBench Q7: first and last day.
select min("EventDate"), max("EventDate") from hits;
