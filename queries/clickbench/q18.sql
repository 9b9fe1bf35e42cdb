-- ClickBench Q18: any ten users and phrases.
-- The benchmark has no order here; with one the first ten are asked for, so that answers can be compared.
select "UserID", "SearchPhrase", count(*)
from hits
group by "UserID", "SearchPhrase"
order by "UserID", "SearchPhrase"
limit 10;
