-- ClickBench Q25: phrases, the first ten by time.
-- The order is made total, so that answers can be compared.
select "SearchPhrase"
from hits
where "SearchPhrase" <> ''
order by "EventTime", "WatchID"
limit 10;
