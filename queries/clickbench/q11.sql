-- ClickBench Q11: phone models by users.
-- The order is made total, so that answers can be compared.
select "MobilePhoneModel", count(distinct "UserID") as u
from hits
where "MobilePhoneModel" <> ''
group by "MobilePhoneModel"
order by u desc, "MobilePhoneModel"
limit 10;
