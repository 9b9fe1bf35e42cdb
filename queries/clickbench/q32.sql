-- ClickBench Q32: a group nearly every searching row.
-- The order is made total, so that answers can be compared.
select "WatchID", "ClientIP", count(*) as c, sum("IsRefresh"), avg("ResolutionWidth")
from hits
where "SearchPhrase" <> ''
group by "WatchID", "ClientIP"
order by c desc, "WatchID", "ClientIP"
limit 10;
