-- ClickBench Q13: search phrases by hits.
-- The order is made total, so that answers can be compared.
select "SearchPhrase", count(*) as c
from hits
where "SearchPhrase" <> ''
group by "SearchPhrase"
order by c desc, "SearchPhrase"
limit 10;
