-- ClickBench Q31: engines and addresses of searching clients.
-- The order is made total, so that answers can be compared.
select "SearchEngineID", "ClientIP", count(*) as c, sum("IsRefresh"), avg("ResolutionWidth")
from hits
where "SearchPhrase" <> ''
group by "SearchEngineID", "ClientIP"
order by c desc, "SearchEngineID", "ClientIP"
limit 10;
