-- ClickBench Q38: titles of a counter.
-- The order is made total, so that answers can be compared.
select "Title", count(*) as page_views
from hits
where
    "CounterID" = 62
    and "EventDate" >= date '2013-07-01'
    and "EventDate" <= date '2013-07-31'
    and "DontCountHits" = 0
    and "IsRefresh" = 0
    and "Title" <> ''
group by "Title"
order by page_views desc, "Title"
limit 10;
