-- ClickBench Q9: regions by users.
-- The order is made total, so that answers can be compared.
select "RegionID", count(distinct "UserID") as u
from hits
group by "RegionID"
order by u desc, "RegionID"
limit 10;
