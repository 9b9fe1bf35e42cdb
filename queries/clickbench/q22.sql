-- ClickBench Q22: phrases of hits whose address has a word in it.
-- The order is made total, so that answers can be compared.
select "SearchPhrase", min("URL"), count(*) as c
from hits
where "URL" like '%google%' and "SearchPhrase" <> ''
group by "SearchPhrase"
order by c desc, "SearchPhrase"
limit 10;
