-- ClickBench Q28: counters by the length of their addresses.
-- The order is made total, so that answers can be compared.
-- The table has a tenth of the public one's rows, hence a tenth of its bound.
select "CounterID", avg(length("URL")) as l, count(*) as c
from hits
where "URL" <> ''
group by "CounterID"
having count(*) > 10000
order by l desc, "CounterID"
limit 25;
