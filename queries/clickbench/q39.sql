-- ClickBench Q39: links of a counter, behind the first.
-- The order is made total, so that answers can be compared.
-- The table has a tenth of the public one's rows, hence a tenth of its offset.
select "URL", count(*) as page_views
from hits
where
    "CounterID" = 62
    and "EventDate" >= date '2013-07-01'
    and "EventDate" <= date '2013-07-31'
    and "IsRefresh" = 0
    and "IsLink" <> 0
    and "IsDownload" = 0
group by "URL"
order by page_views desc, "URL"
limit 10 offset 100;
