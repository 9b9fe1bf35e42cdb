-- ClickBench Q35: a constant and addresses by hits.
-- The order is made total, so that answers can be compared.
select 1, "URL", count(*) as c
from hits
group by 1, "URL"
order by c desc, "URL"
limit 10;
