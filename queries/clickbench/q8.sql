-- ClickBench Q8: advertisers by hits.
-- The order is made total, so that answers can be compared.
select "AdvEngineID", count(*)
from hits
where "AdvEngineID" <> 0
group by "AdvEngineID"
order by count(*) desc, "AdvEngineID";
