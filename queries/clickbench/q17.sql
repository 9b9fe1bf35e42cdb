-- ClickBench Q17: users and phrases by hits.
-- The order is made total, so that answers can be compared.
select "UserID", "SearchPhrase", count(*)
from hits
group by "UserID", "SearchPhrase"
order by count(*) desc, "UserID", "SearchPhrase"
limit 10;
