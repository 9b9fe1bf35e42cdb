-- ClickBench Q40: where a counter's visitors come from and go to.
-- The order is made total, so that answers can be compared.
-- The table has a tenth of the public one's rows, hence a tenth of its offset.
select
    "TraficSourceID",
    "SearchEngineID",
    "AdvEngineID",
    case when "SearchEngineID" = 0 and "AdvEngineID" = 0 then "Referer" else '' end as src,
    "URL" as dst,
    count(*) as page_views
from hits
where
    "CounterID" = 62
    and "EventDate" >= date '2013-07-01'
    and "EventDate" <= date '2013-07-31'
    and "IsRefresh" = 0
group by "TraficSourceID", "SearchEngineID", "AdvEngineID", src, dst
order by page_views desc, "TraficSourceID", "SearchEngineID", "AdvEngineID", src, dst
limit 10 offset 100;
