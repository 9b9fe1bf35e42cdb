-- ClickBench Q36: clients by hits, with keys that depend on another.
-- The order is made total, so that answers can be compared.
select "ClientIP", "ClientIP" - 1, "ClientIP" - 2, "ClientIP" - 3, count(*) as c
from hits
group by "ClientIP", "ClientIP" - 1, "ClientIP" - 2, "ClientIP" - 3
order by c desc, "ClientIP"
limit 10;
