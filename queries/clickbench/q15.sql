-- ClickBench Q15: search engines and phrases by hits.
-- The order is made total, so that answers can be compared.
select "SearchEngineID", "SearchPhrase", count(*) as c
from hits
where "SearchPhrase" <> ''
group by "SearchEngineID", "SearchPhrase"
order by c desc, "SearchEngineID", "SearchPhrase"
limit 10;
