-- ClickBench Q34: addresses by hits.
-- The order is made total, so that answers can be compared.
select "URL", count(*) as c
from hits
group by "URL"
order by c desc, "URL"
limit 10;
