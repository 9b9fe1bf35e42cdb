-- ClickBench Q37: pages of a counter.
-- The order is made total, so that answers can be compared.
select "URL", count(*) as page_views
from hits
where
    "CounterID" = 62
    and "EventDate" >= date '2013-07-01'
    and "EventDate" <= date '2013-07-31'
    and "DontCountHits" = 0
    and "IsRefresh" = 0
    and "URL" <> ''
group by "URL"
order by page_views desc, "URL"
limit 10;
