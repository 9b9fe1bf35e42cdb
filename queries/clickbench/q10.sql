-- ClickBench Q10: regions by hits, with other aggregates.
-- The order is made total, so that answers can be compared.
select "RegionID", sum("AdvEngineID"), count(*) as c, avg("ResolutionWidth"), count(distinct "UserID")
from hits
group by "RegionID"
order by c desc, "RegionID"
limit 10;
