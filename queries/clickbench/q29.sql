-- ClickBench Q29: sites that link here, by the length of the address.
-- The order is made total, so that answers can be compared.
-- The table has a tenth of the public one's rows, hence a tenth of its bound.
select
    regexp_replace("Referer", '^https?://(?:www\.)?([^/]+)/.*$', '\1') as k,
    avg(length("Referer")) as l,
    count(*) as c,
    min("Referer")
from hits
where "Referer" <> ''
group by k
having count(*) > 10000
order by l desc, k
limit 25;
