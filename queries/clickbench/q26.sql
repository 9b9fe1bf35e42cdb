-- ClickBench Q26: phrases, the first ten.
select "SearchPhrase"
from hits
where "SearchPhrase" <> ''
order by "SearchPhrase"
limit 10;
