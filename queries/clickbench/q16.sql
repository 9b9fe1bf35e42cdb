-- ClickBench Q16: users by hits.
-- The order is made total, so that answers can be compared.
select "UserID", count(*)
from hits
group by "UserID"
order by count(*) desc, "UserID"
limit 10;
