-- ClickBench Q41: pages and days of a referer.
-- The order is made total, so that answers can be compared.
-- The table has a tenth of the public one's rows, hence a tenth of its offset.
select "URLHash", "EventDate", count(*) as page_views
from hits
where
    "CounterID" = 62
    and "EventDate" >= date '2013-07-01'
    and "EventDate" <= date '2013-07-31'
    and "IsRefresh" = 0
    and "TraficSourceID" in (-1, 6)
    and "RefererHash" = 3594120000172545465
group by "URLHash", "EventDate"
order by page_views desc, "URLHash", "EventDate"
limit 10 offset 10;
