-- ClickBench Q43: hits of a counter by minute.
select date_trunc('minute', "EventTime") as m, count(*) as page_views
from hits
where
    "CounterID" = 62
    and "EventDate" >= date '2013-07-14'
    and "EventDate" <= date '2013-07-15'
    and "IsRefresh" = 0
    and "DontCountHits" = 0
group by date_trunc('minute', "EventTime")
order by date_trunc('minute', "EventTime")
limit 10 offset 1000;
