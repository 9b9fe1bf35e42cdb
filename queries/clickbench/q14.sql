-- ClickBench Q14: search phrases by users.
-- The order is made total, so that answers can be compared.
select "SearchPhrase", count(distinct "UserID") as u
from hits
where "SearchPhrase" <> ''
group by "SearchPhrase"
order by u desc, "SearchPhrase"
limit 10;
