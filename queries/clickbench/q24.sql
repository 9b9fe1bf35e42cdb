-- ClickBench Q24: whole rows, the first ten of some.
-- The order is made total, so that answers can be compared.
select *
from hits
where "URL" like '%google%'
order by "EventTime", "WatchID"
limit 10;
