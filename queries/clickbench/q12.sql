-- ClickBench Q12: phones and models by users.
-- The order is made total, so that answers can be compared.
select "MobilePhone", "MobilePhoneModel", count(distinct "UserID") as u
from hits
where "MobilePhoneModel" <> ''
group by "MobilePhone", "MobilePhoneModel"
order by u desc, "MobilePhone", "MobilePhoneModel"
limit 10;
