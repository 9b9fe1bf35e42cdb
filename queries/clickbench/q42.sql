-- ClickBench Q42: window sizes of a page.
-- The order is made total, so that answers can be compared.
-- The table has a tenth of the public one's rows, hence a tenth of its offset.
select "WindowClientWidth", "WindowClientHeight", count(*) as page_views
from hits
where
    "CounterID" = 62
    and "EventDate" >= date '2013-07-01'
    and "EventDate" <= date '2013-07-31'
    and "IsRefresh" = 0
    and "DontCountHits" = 0
    and "URLHash" = 2868770270353813622
group by "WindowClientWidth", "WindowClientHeight"
order by page_views desc, "WindowClientWidth", "WindowClientHeight"
limit 10 offset 1000;
